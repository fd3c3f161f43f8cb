//go:build !amd64

package hostile

// older are calls that this machine was never given.
var older []call
