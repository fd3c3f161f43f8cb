package job

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/cores"
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

// Reserved refuses, as Denied, a job of the namespace that holds Berth's own.
func (j *Job) Reserved() error {
	if j.Namespace != ids.ReservedNamespace {
		return nil
	}
	denied := fault.New(fault.Denied, "register", fmt.Sprintf("job %q", j.ID),
		fmt.Sprintf("the namespace %q holds Berth's own jobs", j.Namespace))
	return fault.WithHint(denied, "use another namespace")
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
		within("cores", r.Cores, 0, cores.Max)
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
	walk(reflect.ValueOf(job), "", func(path string) { paths = append(paths, path) }, false)
	slices.Sort(paths)
	return paths
}

// DropNulls takes the elements of a job's lists and maps that are null out of it, once they have been named, and
// reports whether there were any: what else there is can be judged without them.
func DropNulls(job any) bool {
	dropped := false
	walk(reflect.ValueOf(job), "", func(string) { dropped = true }, true)
	return dropped
}

// walk calls found with the path of each null element, and takes it out if asked to.
func walk(v reflect.Value, path string, found func(string), drop bool) {
	null := func(e reflect.Value, at string) bool {
		if e.Kind() == reflect.Pointer && e.IsNil() {
			found(at)
			return true
		}
		walk(e, at, found, drop)
		return false
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), path, found, drop)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), found, drop)
			}
		}
	case reflect.Slice:
		kept := 0
		for i := range v.Len() {
			if null(v.Index(i), fmt.Sprintf("%s[%d]", path, i)) && drop {
				continue
			}
			if kept != i {
				v.Index(kept).Set(v.Index(i))
			}
			kept++
		}
		if kept < v.Len() {
			v.SetLen(kept)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if null(v.MapIndex(key), fmt.Sprintf("%s[%q]", path, key)) && drop {
				v.SetMapIndex(key, reflect.Value{})
			}
		}
	}
}
