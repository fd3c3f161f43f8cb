package collector

import (
	"os"
	"path/filepath"
	"testing"
)

// Given control groups with and without limits, then a process may have the least that one says in which it is.
func TestALimitOfAControlGroupIsAllTheMemoryThereIs(t *testing.T) {
	root := t.TempDir()
	for path, limit := range map[string]string{
		"":                      "", // the highest has none
		"system.slice":          "max",
		"system.slice/berth":    "536870912\n",
		"system.slice/berth/in": "max\n",
		"wide":                  "68719476736\n",
		"wide/narrow":           "1073741824\n",
	} {
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if limit == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "memory.max"), []byte(limit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const all = 16 << 30
	for own, want := range map[string]uint64{
		"0::/\n":                      all,
		"0::/system.slice\n":          all,
		"0::/system.slice/berth\n":    512 << 20,
		"0::/system.slice/berth/in\n": 512 << 20,
		"0::/wide\n":                  all,
		"0::/wide/narrow\n":           1 << 30,
		"0::/gone\n":                  all,
		"1:memory:/wide/narrow\n0::/system.slice\n": all,
		"": all,
	} {
		if got := allowed(all, root, own); got != want {
			t.Errorf("in %q it may have %d, want %d", own, got, want)
		}
	}
	if got := memory(); got == 0 {
		t.Error("this machine has no memory")
	}
}
