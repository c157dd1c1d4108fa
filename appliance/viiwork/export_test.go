package main

// TakeStray is takeStray.
var TakeStray = takeStray

// DrawKV is drawKV.
var DrawKV = drawKV
