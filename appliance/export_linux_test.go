package appliance

// MemoryRoom is what can be written to a folder in memory, and the memory of the machine.
var MemoryRoom = memoryRoom
