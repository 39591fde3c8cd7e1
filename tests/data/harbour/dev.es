El marinero ve la ventana roja en el puerto.
La niña compra el reloj viejo hoy.
El marinero compra la lámpara vieja de noche.
La enfermera ve la ventana limpia hoy.
La enfermera repara la lámpara roja hoy.
La niña ve el barco rojo en el puerto.
El cocinero repara la ventana limpia en el puerto.
La enfermera repara la ventana pequeña en el puerto.
La niña compra el barco limpio hoy.
La niña pinta la lámpara hoy.
El cocinero repara la ventana pequeña en el puerto.
La niña compra el barco de noche.
La niña ve la lámpara pequeña de noche.
El marinero ve el reloj limpio de noche.
El cocinero ve la lámpara de noche.
La niña compra la lámpara vieja en el puerto.
La niña pinta el reloj rojo hoy.
El cocinero ve la ventana limpia en el puerto.
El cocinero repara el barco viejo hoy.
El marinero repara el reloj limpio.
El cocinero compra la lámpara de noche.
La niña ve la lámpara vieja hoy.
El marinero ve la lámpara pequeña.
La niña compra el barco hoy.
El cocinero pinta la lámpara vieja de noche.
La enfermera compra el barco viejo.
La enfermera repara el reloj rojo en el puerto.
El cocinero ve el barco rojo de noche.
La niña repara el barco en el puerto.
El marinero compra la ventana pequeña en el puerto.
