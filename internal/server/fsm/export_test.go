package fsm

// Envelope is a command in the log.
type Envelope = envelope
