package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Given control groups of both versions, with and without limits, then a process may have the least that one says in
// which it is, in the hierarchy that has its memory.
func TestALimitOfAControlGroupIsAllTheMemoryThereIs(t *testing.T) {
	root := t.TempDir()
	write := func(tree, file string, limits map[string]string) {
		for path, limit := range limits {
			dir := filepath.Join(root, tree, path)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if limit == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("two", "memory.max", map[string]string{
		"":                      "", // the highest has none
		"system.slice":          "max",
		"system.slice/berth":    "536870912\n",
		"system.slice/berth/in": "max\n",
		"wide":                  "68719476736\n",
		"wide/narrow":           "1073741824\n",
	})
	const unlimited = "9223372036854771712\n"
	write("mem ory", "memory.limit_in_bytes", map[string]string{
		"":           unlimited,
		"berth":      "268435456\n",
		"berth/in":   unlimited,
		"wide/other": unlimited,
	})
	write("cpu", "memory.limit_in_bytes", map[string]string{"berth": "4096\n"}) // nobody asks there
	mount := func(of, point, kind, options string) string {
		return fmt.Sprintf("31 23 0:26 %s %s/%s rw,nosuid - %s cgroup %s\n", of, root, point, kind, options)
	}
	var (
		none   = "22 1 8:1 / / rw - ext4 /dev/root rw\n"
		two    = none + mount("/", "two", "cgroup2", "rw")
		cpu    = mount("/", "cpu", "cgroup", "rw,cpu,cpuacct")
		one    = none + cpu + mount("/", `mem\040ory`, "cgroup", "rw,memory")
		both   = one + mount("/", "two", "cgroup2", "rw")
		inside = none + mount("/docker/x", "two", "cgroup2", "rw")
	)
	const all = 16 << 30
	for _, c := range []struct {
		what, table, own string
		want             uint64
	}{
		{"the highest", two, "0::/\n", all},
		{"without a limit", two, "0::/system.slice\n", all},
		{"with one", two, "0::/system.slice/berth\n", 512 << 20},
		{"below one", two, "0::/system.slice/berth/in\n", 512 << 20},
		{"with more than there is", two, "0::/wide\n", all},
		{"a narrow one in a wide one", two, "0::/wide/narrow\n", 1 << 30},
		{"one that is gone", two, "0::/gone\n", all},
		{"no group", two, "", all},
		{"what nobody reads", two, "0::\nnonsense\n", all},
		{"version 1", one, "4:memory:/berth\n3:cpu,cpuacct:/\n", 256 << 20},
		{"below one of version 1", one, "4:memory:/berth/in\n", 256 << 20},
		{"version 1 without a limit", one, "4:memory:/wide/other\n3:cpu,cpuacct:/berth\n", all},
		{"both, limited by 1", both, "4:memory:/berth\n0::/system.slice\n", 256 << 20},
		{"both, limited by 2", both, "4:memory:/\n0::/wide/narrow\n", 1 << 30},
		{"a path of the other version", both, "4:memory:/wide/narrow\n0::/berth\n", all},
		{"memory with others", one, "4:hugetlb,memory:/berth\n", 256 << 20},
		{"a container that sees its own", inside, "0::/docker/x/wide/narrow\n", 1 << 30},
		{"a container's highest", inside, "0::/docker/x\n", all},
		{"a container beside", inside, "0::/docker/xwide/narrow\n", all},
		{"a group that is not seen", inside, "0::/../wide/narrow\n", all},
		{"nothing mounted", none, "0::/wide/narrow\n", all},
	} {
		if got := allowed(all, c.table, c.own); got != c.want {
			t.Errorf("%s: it may have %d, want %d", c.what, got, c.want)
		}
	}
	if got, _ := memory(); got == 0 {
		t.Error("this machine has no memory")
	}
}
