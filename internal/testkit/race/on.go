//go:build race

package race

// On reports whether the race detector looks on.
const On = true
