La enfermera ve el reloj de noche.
La enfermera repara el reloj limpio hoy.
La enfermera compra el reloj viejo hoy.
La niña ve el reloj pequeño de noche.
El cocinero ve la lámpara hoy.
La niña pinta el barco de noche.
El marinero repara el barco rojo hoy.
La enfermera pinta la ventana de noche.
El marinero repara el reloj viejo en el puerto.
La enfermera repara la ventana hoy.
La niña ve la lámpara limpia de noche.
El cocinero pinta la lámpara limpia de noche.
El marinero ve el reloj pequeño en el puerto.
La enfermera ve el reloj limpio hoy.
El marinero pinta la lámpara en el puerto.
El marinero pinta el reloj pequeño en el puerto.
La enfermera ve el reloj hoy.
La enfermera repara el reloj rojo.
El cocinero ve la lámpara en el puerto.
La enfermera compra el barco hoy.
La enfermera pinta el reloj viejo.
La enfermera pinta el barco.
El marinero ve el barco viejo de noche.
El marinero repara el reloj rojo hoy.
La niña repara el barco rojo en el puerto.
El marinero compra la ventana limpia hoy.
El cocinero repara el reloj rojo.
El marinero compra el reloj.
El cocinero repara la lámpara pequeña de noche.
La enfermera pinta el barco pequeño.
