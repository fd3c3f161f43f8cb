package lastrun

// Parse reads an entry of the kernel's log.
var Parse = parse
