package kv

import (
	"path/filepath"
	"testing"
)

// TestEveryTransactionIsSynced: the store's promise is bbolt's, unless somebody turns it off.
func TestEveryTransactionIsSynced(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "kv.db"))
	if s.db.NoSync || s.db.NoGrowSync {
		t.Errorf("no sync of transactions: %v, of the file's growth: %v", s.db.NoSync, s.db.NoGrowSync)
	}
}
