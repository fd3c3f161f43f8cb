// Package fsm owns the commands that change the replicated state, their encoded form, and the machine that applies them
// in the order of the Raft log. A command is a struct with Apply; one file per noun; each names the one package that
// proposes it. Packages of the server half may import it.
package fsm
