// Package submit owns the test that what servers take at submit is what nodes start, and what nodes refuse for its form
// is refused at submit: the drivers of production, a whole server between, and each value for each option. It has tests
// alone.
package submit
