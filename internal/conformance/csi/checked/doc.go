// Package checked owns the proof that the test of storage plugins, which authors run, finds what is wrong with one and
// nothing else: it runs on the fake plugin, as it is and as it lies. Nobody imports it.
package checked
