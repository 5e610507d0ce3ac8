
JFFбAффBAа©EедBфе79фDа╬ц©фEEе;BADDфадцдE╠╬╢©=9CDц╪╫Cд=ц<EEце<Aа:EцC╩еаEC