package hook

import "errors"

// storageError is an error for the sake of storage.
type storageError struct{ error }

func (e *storageError) Unwrap() error { return e.error }

// ForStorage marks an error as one of the storage: an alloc of another version of its job would meet the same. Nil
// stays nil.
func ForStorage(err error) error {
	if err == nil {
		return nil
	}
	return &storageError{err}
}

// IsForStorage reports whether an error is marked so.
func IsForStorage(err error) bool {
	var e *storageError
	return errors.As(err, &e)
}
