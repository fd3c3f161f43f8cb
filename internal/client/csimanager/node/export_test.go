package node

// Dirty reports whether anything is not on disk yet.
func (k *Keeper) Dirty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.vols {
		if l.dirty {
			return true
		}
	}
	return false
}
