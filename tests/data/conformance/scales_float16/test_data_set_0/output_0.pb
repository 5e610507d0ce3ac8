
J#‚
×ôb-bÞTòNv  $ô~n¯Î2lˆwÆsJs