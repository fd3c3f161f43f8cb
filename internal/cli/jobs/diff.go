package jobs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/api"
	"berth/internal/cli/kit"
)

// diffPrinter writes the difference of two versions of a job as a tree.
type diffPrinter struct {
	out     *kit.Printer
	verbose bool // show what is equal, too
}

// mark is the sign before a line, in four columns.
func (d *diffPrinter) mark(kind string) string {
	switch kind {
	case api.DiffTypeAdded:
		return d.out.Green("+") + "   "
	case api.DiffTypeDeleted:
		return d.out.Red("-") + "   "
	case api.DiffTypeEdited:
		return d.out.Yellow("+/-") + " "
	}
	return "    "
}

func (d *diffPrinter) job(j *api.JobDiff) {
	d.out.Printf("%sJob: %q\n", d.mark(j.Type), j.ID)
	d.members("", j.Fields, j.Objects)
	for _, g := range j.TaskGroups {
		if g.Type == api.DiffTypeNone && !d.verbose && len(g.Updates) == 0 {
			continue
		}
		d.out.Printf("%sTask Group: %q%s\n", d.mark(g.Type), kit.Clean(g.Name), updates(g.Updates))
		d.members("  ", g.Fields, g.Objects)
		for _, t := range g.Tasks {
			if t.Type == api.DiffTypeNone && !d.verbose {
				continue
			}
			d.out.Printf("  %sTask: %q%s\n", d.mark(t.Type), kit.Clean(t.Name), notes(t.Annotations))
			d.members("    ", t.Fields, t.Objects)
		}
	}
}

// updates says what a change of a group does to its allocations.
func updates(counts map[string]uint64) string {
	var parts []string
	for _, kind := range sortedKeys(counts) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return notes(parts)
}

func notes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func (d *diffPrinter) members(indent string, fields []*api.FieldDiff, objects []*api.ObjectDiff) {
	for _, f := range fields {
		if f.Type == api.DiffTypeNone && !d.verbose {
			continue
		}
		d.out.Printf("%s%s%s: %s%s\n", indent, d.mark(f.Type), kit.Clean(f.Name), fieldValue(f), notes(f.Annotations))
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *api.ObjectDiff) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range objects {
		if o.Type == api.DiffTypeNone && !d.verbose {
			continue
		}
		d.out.Printf("%s%s%s {\n", indent, d.mark(o.Type), kit.Clean(o.Name))
		d.members(indent+"  ", o.Fields, o.Objects)
		d.out.Printf("%s    }\n", indent)
	}
}

func fieldValue(f *api.FieldDiff) string {
	old, now := forPeople(f.Name, f.Old), forPeople(f.Name, f.New)
	switch f.Type {
	case api.DiffTypeAdded:
		return fmt.Sprintf("%q", now)
	case api.DiffTypeEdited:
		return fmt.Sprintf("%q => %q", old, now)
	}
	return fmt.Sprintf("%q", old)
}

// durations are the members of a job that the API gives in nanoseconds.
var durations = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	collectDurations(reflect.TypeFor[api.Job](), map[reflect.Type]bool{}, out)
	return out
})

func collectDurations(t reflect.Type, seen map[reflect.Type]bool, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if is := reflect.TypeFor[time.Duration](); f.Type == is || f.Type == reflect.PointerTo(is) {
			into[f.Name] = true
		}
		collectDurations(f.Type, seen, into)
	}
}

// forPeople writes a duration with its units.
func forPeople(name, value string) string {
	if !durations()[name] {
		return value
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return value
	}
	return time.Duration(n).String()
}
