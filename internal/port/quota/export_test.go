package quota

// Machine is this machine's kernel.
var Machine Kernel = machine{}
