package main

// TakeStray is takeStray.
var TakeStray = takeStray
