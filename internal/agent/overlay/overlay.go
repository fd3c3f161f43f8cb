// Package overlay owns how one file of an agent's configuration is laid over another. Only packages of the agent import
// it.
package overlay

// Pick replaces a value by one that is set: by one that is not its type's zero value.
func Pick[T comparable](into *T, from T) {
	var zero T
	if from != zero {
		*into = from
	}
}
