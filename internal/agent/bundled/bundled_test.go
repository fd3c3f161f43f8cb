package bundled

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestTheProgramIsSummedWithoutBeingHeld: given a program of 64 MiB, when its sum is taken, then it is that of its
// bytes, and little memory is used: what is taken at the start of an agent, it keeps for long.
func TestTheProgramIsSummedWithoutBeingHeld(t *testing.T) {
	const size = 64 << 20
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := sum(path)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, size)
	copy(whole, "a program")
	if want := sha256.Sum256(whole); got != hex.EncodeToString(want[:]) {
		t.Errorf("the sum is %s, not %x", got, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/8 {
		t.Errorf("%d bytes were used for it", used)
	}
}
