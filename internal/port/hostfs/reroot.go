package hostfs

import "strings"

// Reroot is where a path is after what lies beneath one directory was moved to another; a path elsewhere stays.
func Reroot(path, from, to string) string {
	if rest, beneath := strings.CutPrefix(path, from); beneath && (rest == "" || rest[0] == '/') {
		return to + rest
	}
	return path
}
