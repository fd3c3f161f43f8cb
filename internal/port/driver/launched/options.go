package launched

import "path/filepath"

// WorkDir takes the working directory from a config block as a schema reads it, which has it absolute.
func WorkDir(config map[string]any, otherwise string) string {
	dir, _ := config["work_dir"].(string) // nil: it is not set
	if dir == "" {
		return otherwise
	}
	return filepath.Clean(dir)
}

// MaxOOMScore is what oom_score_adj ends at (proc(5)). What is below 0 is at the cost of the node.
const MaxOOMScore = 1000

// OOMScore takes from a config block how much sooner than others the kernel kills the task when the node is out of
// memory.
func OOMScore(config map[string]any) int {
	n, _ := config["oom_score_adj"].(int64) // nil: it is not set
	return int(n)
}
