// Package verbs owns the table of what may be asked of a volume in which state, and what comes of it: one run of the
// endpoints, the HTTP surface and the command line of production for each. It writes docs/volume-verbs.md. It has tests
// alone.
package verbs
