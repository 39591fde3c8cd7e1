La niña repara el barco limpio.
La enfermera pinta el reloj limpio.
La enfermera compra el barco de noche.
La niña repara el barco viejo.
La enfermera compra la lámpara.
La enfermera pinta el reloj rojo de noche.
La enfermera ve la ventana en el puerto.
El marinero repara la lámpara.
La enfermera repara la lámpara de noche.
La enfermera ve el reloj limpio en el puerto.
La enfermera repara la lámpara vieja de noche.
La niña repara el reloj en el puerto.
La enfermera repara el barco en el puerto.
La niña ve la lámpara hoy.
La niña repara el reloj pequeño de noche.
El marinero pinta el reloj viejo hoy.
La enfermera pinta la ventana pequeña en el puerto.
La enfermera ve la ventana vieja de noche.
La niña pinta la lámpara.
El cocinero ve el barco.
La enfermera repara el barco rojo hoy.
El cocinero ve la ventana roja hoy.
El cocinero compra la ventana vieja de noche.
El marinero compra la ventana roja de noche.
El cocinero repara el barco hoy.
La enfermera pinta el barco viejo.
La niña compra el reloj hoy.
La enfermera ve la lámpara en el puerto.
El cocinero ve el reloj rojo de noche.
El marinero ve la ventana pequeña.
La niña repara el reloj viejo hoy.
La niña pinta el reloj pequeño.
El marinero compra la lámpara limpia hoy.
El cocinero ve el reloj de noche.
La enfermera ve la ventana pequeña hoy.
La niña compra la ventana vieja hoy.
La enfermera compra la ventana vieja hoy.
El marinero pinta la lámpara hoy.
La niña repara la ventana pequeña de noche.
El marinero pinta la ventana vieja en el puerto.
El cocinero compra el barco rojo.
La niña ve la ventana roja en el puerto.
El marinero repara la ventana de noche.
El marinero repara el reloj.
El cocinero ve el barco viejo.
La niña compra la lámpara roja hoy.
La niña ve la lámpara en el puerto.
La enfermera repara la ventana roja en el puerto.
El cocinero compra la ventana vieja en el puerto.
El marinero compra la ventana limpia.
El cocinero pinta la ventana roja hoy.
El cocinero repara el barco.
La enfermera repara el barco pequeño hoy.
El marinero pinta la ventana de noche.
El cocinero repara la lámpara.
El marinero pinta la lámpara.
La enfermera repara el barco.
El marinero repara el barco rojo de noche.
El marinero ve la ventana roja hoy.
La niña repara la ventana.
El cocinero pinta la lámpara hoy.
El marinero pinta la ventana roja hoy.
La enfermera repara el reloj en el puerto.
La enfermera compra el barco limpio de noche.
El marinero ve el reloj.
La niña pinta la lámpara de noche.
El cocinero compra el reloj hoy.
La niña ve el reloj hoy.
La enfermera pinta la lámpara limpia de noche.
La niña repara el reloj de noche.
La niña ve el barco rojo de noche.
El cocinero repara la ventana limpia de noche.
El marinero compra el barco limpio hoy.
La niña compra el barco en el puerto.
El cocinero pinta el reloj.
El marinero ve la ventana de noche.
El marinero ve la lámpara en el puerto.
La niña compra el reloj pequeño en el puerto.
La enfermera compra la lámpara limpia hoy.
El marinero repara la ventana vieja hoy.
La niña ve el reloj.
La niña pinta la ventana roja hoy.
El cocinero repara la ventana en el puerto.
La niña compra la ventana en el puerto.
La niña pinta el reloj de noche.
El marinero ve el barco de noche.
La niña repara el barco pequeño de noche.
El cocinero ve el barco en el puerto.
El cocinero compra la ventana de noche.
La enfermera compra el barco viejo en el puerto.
El cocinero compra la lámpara en el puerto.
El cocinero compra la lámpara vieja hoy.
La enfermera compra el reloj de noche.
El marinero pinta el reloj de noche.
La enfermera compra la lámpara de noche.
El marinero repara el barco de noche.
La enfermera pinta la ventana en el puerto.
La enfermera compra la lámpara vieja.
El marinero pinta la lámpara pequeña.
El cocinero ve el barco viejo de noche.
La niña repara la ventana de noche.
La niña compra el reloj pequeño hoy.
El cocinero repara la lámpara hoy.
El marinero repara el reloj en el puerto.
La niña pinta la ventana.
La niña pinta el reloj rojo de noche.
La niña compra la lámpara limpia de noche.
La niña pinta el barco rojo de noche.
La enfermera compra la ventana.
El marinero ve el barco hoy.
La enfermera repara el reloj rojo de noche.
La niña pinta la lámpara limpia de noche.
La niña repara el reloj viejo de noche.
La niña ve el barco.
La enfermera compra la ventana de noche.
La enfermera pinta la lámpara roja.
El marinero repara el reloj pequeño hoy.
El marinero ve el barco pequeño hoy.
El marinero ve el reloj rojo hoy.
El cocinero compra la lámpara pequeña en el puerto.
El cocinero pinta la lámpara.
La niña compra la ventana.
El marinero pinta la ventana roja.
La enfermera ve el barco.
La enfermera compra la lámpara pequeña en el puerto.
El marinero repara la ventana limpia.
El marinero repara la ventana limpia hoy.
El marinero ve la ventana en el puerto.
La niña repara la ventana en el puerto.
La enfermera pinta el barco en el puerto.
El marinero pinta la ventana pequeña hoy.
El marinero repara el reloj hoy.
El marinero repara la ventana pequeña en el puerto.
El cocinero ve la ventana pequeña.
El cocinero compra el barco pequeño de noche.
La enfermera ve el barco limpio hoy.
El cocinero repara la lámpara de noche.
El cocinero repara el reloj en el puerto.
El cocinero ve la lámpara roja hoy.
La niña pinta el barco en el puerto.
El marinero repara el barco viejo.
El marinero pinta el barco hoy.
El cocinero pinta la lámpara en el puerto.
La niña compra el reloj de noche.
La niña ve el reloj viejo de noche.
La enfermera ve el reloj en el puerto.
La enfermera repara el barco pequeño en el puerto.
El cocinero compra el reloj rojo de noche.
La enfermera pinta la lámpara de noche.
La enfermera repara el barco viejo en el puerto.
El marinero ve el barco pequeño en el puerto.
El cocinero repara el reloj viejo en el puerto.
La enfermera pinta la ventana roja en el puerto.
El cocinero pinta la ventana de noche.
La enfermera repara la ventana en el puerto.
La enfermera compra la ventana hoy.
La enfermera compra el reloj rojo.
La niña ve la lámpara limpia.
El marinero pinta el reloj viejo.
La niña repara el reloj.
El marinero ve el reloj de noche.
El marinero ve el reloj limpio en el puerto.
La enfermera compra el barco rojo.
La niña compra la ventana de noche.
La niña compra la ventana pequeña.
El cocinero compra el barco de noche.
El marinero repara la lámpara de noche.
La enfermera pinta la lámpara vieja de noche.
El cocinero pinta el reloj limpio en el puerto.
La niña pinta la ventana hoy.
La enfermera ve la lámpara de noche.
La niña repara la lámpara vieja en el puerto.
La niña repara la lámpara vieja hoy.
La niña pinta el barco hoy.
El cocinero repara el reloj.
El cocinero ve la lámpara pequeña hoy.
El cocinero ve el reloj rojo.
El marinero pinta la ventana vieja.
El cocinero ve el barco hoy.
El cocinero ve la lámpara pequeña de noche.
El marinero pinta la ventana limpia de noche.
La enfermera repara el reloj hoy.
La niña ve el barco limpio hoy.
El cocinero repara el barco de noche.
El cocinero pinta el reloj en el puerto.
La enfermera pinta la lámpara.
La niña compra la lámpara pequeña de noche.
La niña compra la lámpara roja en el puerto.
El cocinero ve la ventana.
La niña ve el reloj limpio en el puerto.
La enfermera repara la ventana limpia en el puerto.
El marinero compra el barco.
La niña ve la lámpara de noche.
El marinero repara el barco en el puerto.
El cocinero ve la ventana pequeña en el puerto.
El cocinero compra la ventana hoy.
La niña repara el barco.
El marinero pinta el reloj en el puerto.
La niña compra el reloj rojo de noche.
La enfermera compra el reloj.
El cocinero pinta la lámpara vieja.
El marinero pinta el barco en el puerto.
El marinero compra el reloj hoy.
La niña compra la lámpara.
La enfermera ve la lámpara hoy.
El marinero compra la lámpara vieja en el puerto.
La enfermera ve el barco rojo en el puerto.
El marinero repara el barco limpio en el puerto.
La niña repara la lámpara en el puerto.
La enfermera compra la lámpara en el puerto.
La enfermera repara la ventana pequeña hoy.
La niña repara el barco de noche.
El marinero pinta la lámpara vieja de noche.
La niña pinta el reloj hoy.
La enfermera ve la lámpara vieja.
El marinero compra el reloj en el puerto.
La niña pinta el barco rojo en el puerto.
La enfermera pinta la ventana roja hoy.
El cocinero compra la lámpara vieja.
El cocinero repara el reloj pequeño.
La niña ve la lámpara.
El marinero compra la lámpara en el puerto.
La niña ve la ventana hoy.
La niña repara el reloj limpio en el puerto.
El marinero pinta la lámpara vieja.
El marinero ve el barco en el puerto.
La niña pinta la lámpara en el puerto.
La niña repara la lámpara vieja.
La enfermera pinta el barco hoy.
El cocinero ve el reloj.
La enfermera compra el barco pequeño de noche.
La enfermera compra el barco pequeño.
La niña ve la ventana vieja de noche.
El marinero ve el barco.
El cocinero ve la ventana de noche.
El marinero repara la lámpara roja de noche.
El cocinero repara la ventana.
El marinero pinta el barco rojo de noche.
El cocinero pinta la ventana limpia hoy.
El marinero pinta la ventana.
El cocinero pinta la ventana pequeña.
El marinero pinta el reloj rojo hoy.
El marinero compra la ventana hoy.
El cocinero repara el reloj viejo de noche.
El marinero ve el reloj viejo hoy.
El marinero ve la lámpara roja hoy.
La niña repara el reloj pequeño hoy.
El cocinero ve el reloj hoy.
La niña compra la ventana limpia en el puerto.
El marinero compra el barco limpio de noche.
La niña compra el reloj en el puerto.
El marinero compra el reloj limpio de noche.
La niña repara el reloj limpio hoy.
El cocinero ve el reloj viejo de noche.
El marinero repara la lámpara en el puerto.
La niña pinta el barco limpio de noche.
La enfermera ve el reloj rojo hoy.
El cocinero repara el barco rojo en el puerto.
El marinero compra la ventana de noche.
La enfermera ve la ventana de noche.
La enfermera pinta el barco rojo de noche.
El marinero pinta el barco viejo hoy.
El marinero ve la lámpara vieja.
El cocinero ve el barco pequeño hoy.
El cocinero pinta la ventana vieja hoy.
El cocinero ve el barco de noche.
La niña compra el barco pequeño hoy.
El cocinero ve el barco rojo en el puerto.
La niña ve el barco viejo hoy.
La niña repara el barco pequeño hoy.
La enfermera pinta la ventana limpia.
El cocinero repara la ventana pequeña de noche.
El cocinero compra la ventana en el puerto.
El cocinero repara la lámpara roja hoy.
La niña compra la lámpara vieja hoy.
El cocinero repara la lámpara limpia de noche.
El cocinero compra el barco hoy.
La enfermera ve el barco hoy.
El cocinero repara la ventana de noche.
La niña ve el reloj de noche.
El marinero ve la lámpara pequeña hoy.
La niña pinta la lámpara limpia.
La enfermera pinta el reloj viejo de noche.
El cocinero pinta la lámpara roja hoy.
El marinero compra la lámpara pequeña de noche.
El marinero pinta la lámpara roja.
El cocinero ve la lámpara limpia hoy.
El cocinero ve la ventana vieja en el puerto.
El cocinero repara la lámpara limpia.
El cocinero repara la lámpara limpia hoy.
El cocinero compra la lámpara limpia en el puerto.
La niña pinta el barco.
El marinero compra el reloj de noche.
La niña compra el reloj limpio.
La niña ve la ventana de noche.
La enfermera repara la lámpara pequeña.
El marinero repara la ventana hoy.
La enfermera pinta el barco rojo.
La niña compra el reloj rojo.
La niña pinta la ventana de noche.
