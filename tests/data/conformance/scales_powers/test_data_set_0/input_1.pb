
J#}N๔zgโฦNnDํ๏อร๛E๔ฦูLฏm–.jt{n๗ฤv