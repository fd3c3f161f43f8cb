//go:build !race

// Package race owns what tests do under the race detector, which makes them many times slower. Tests import it.
package race

// On reports whether the race detector looks on.
const On = false
