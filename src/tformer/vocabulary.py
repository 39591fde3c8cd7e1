"""The four special ids, fixed here and named everywhere else."""

PAD_ID = 0
BOS_ID = 1
EOS_ID = 2
UNK_ID = 3
