// Package state owns the replicated state of the servers: one file per table, typed readers and writers, the watch set
// that every read can fill, and the one helper that turns a read into a blocking query. It keeps time, chance and map
// order out: what it holds is decided by the commands alone. Packages of the server half may import it; only package
// fsm writes.
package state
