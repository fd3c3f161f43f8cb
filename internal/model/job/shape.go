package job

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"

	"berth/internal/base/ids"
)

// MaxPIDs is the most that the kernel takes (PID_MAX_LIMIT).
const MaxPIDs = 1 << 22

// Misshapen lists what no job may have, wherever it comes from: elements that are nothing, names that are none, and
// amounts below nothing, which would free on a node what others have. The bounds of most are in Excesses. What the
// rules of job files ask beyond that is judged where those are read. It stands any job.
func (j *Job) Misshapen() []error {
	var errs []error
	if paths := Nulls(j); len(paths) > 0 {
		for _, p := range paths {
			errs = append(errs, fmt.Errorf("%s is null", p))
		}
		return errs // the rest would look into them
	}
	within := func(at, what string, n, least, most int) {
		switch {
		case n < least:
			errs = append(errs, fmt.Errorf("%s: %s must be at least %d, is %d", at, what, least, n))
		case n > most:
			errs = append(errs, fmt.Errorf("%s: %s must be at most %d, is %d", at, what, most, n))
		}
	}
	for _, g := range j.TaskGroups {
		at := "group " + strconv.Quote(g.Name)
		if err := ids.ValidTask(g.Name); err != nil {
			errs = append(errs, fmt.Errorf("%s: name: %w", at, err))
		}
		within(at, "count", g.Count, 0, math.MaxInt)
		if d := g.EphemeralDisk; d != nil {
			within(at, "size of ephemeral_disk", d.SizeMB, 0, math.MaxInt)
		}
		for _, n := range g.Networks {
			for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
				within(at, fmt.Sprintf("port %q", p.Label), p.Value, 0, maxPort)
				within(at, fmt.Sprintf("to of port %q", p.Label), p.To, -1, maxPort)
			}
		}
		for _, t := range g.Tasks {
			at := fmt.Sprintf("%s: task %q", at, t.Name)
			if err := ids.ValidTask(t.Name); err != nil {
				errs = append(errs, fmt.Errorf("%s: name: %w", at, err))
			}
			t.asks(func(what string, n, least, most int) { within(at, what, n, least, most) })
		}
	}
	return errs
}

const maxPort = 1<<16 - 1

// asks reports each amount that a task asks for, with its bounds.
func (t *Task) asks(within func(what string, n, least, most int)) {
	if r := t.Resources; r != nil {
		within("cpu", r.CPU, 0, math.MaxInt)
		within("memory", r.MemoryMB, 0, math.MaxInt)
		within("memory_max", r.MemoryMaxMB, -1, math.MaxInt)
		within("disk", r.DiskMB, 0, MaxMiB.Max)
		within("pids", r.PIDs, 0, MaxPIDs)
	}
	if l := t.LogConfig; l != nil {
		within("max_files of logs", l.MaxFiles, 0, math.MaxInt)
		within("max_file_size of logs", l.MaxFileSizeMB, 0, math.MaxInt)
	}
}

// Nulls lists the elements of the lists and maps of a job, of whichever shape, that are null, by their paths: no rule
// and no default has a meaning for them.
func Nulls(job any) []string {
	var paths []string
	nulls(reflect.ValueOf(job), "", func(path string) { paths = append(paths, path) })
	slices.Sort(paths)
	return paths
}

func nulls(v reflect.Value, path string, found func(string)) {
	element := func(e reflect.Value, at string) {
		if e.Kind() == reflect.Pointer && e.IsNil() {
			found(at)
			return
		}
		nulls(e, at, found)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			nulls(v.Elem(), path, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				at := f.Name
				if path != "" {
					at = path + "." + f.Name
				}
				nulls(v.Field(i), at, found)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			element(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			element(it.Value(), fmt.Sprintf("%s[%q]", path, it.Key()))
		}
	}
}
