
JFдDGLALAED>╬╤8>й╬AидFцICю:дA;╫DидафGBеCIх>х╬I╦AгцгH╦Hи>CCJ2╪дааD╦D8Fф╦>