package job

import (
	"slices"
	"strconv"
	"strings"
)

func itoa(i int) string { return strconv.Itoa(i) }

func (g *TaskGroup) volumes(kind string) []*VolumeRequest {
	var out []*VolumeRequest
	for _, v := range g.Volumes {
		if v.Type == kind {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *VolumeRequest) int { return strings.Compare(a.Name, b.Name) })
	return out
}
