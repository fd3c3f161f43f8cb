// Package server owns the server half as a whole: it opens the log and the state, serves the wire's methods, holds the
// connections of the nodes, and starts the leader's work on gain and joins it on loss. What the leader does is in the
// packages beneath; components.go is the one place where they are put together. Only package agent constructs it.
package server
