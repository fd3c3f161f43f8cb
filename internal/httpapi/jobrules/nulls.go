package jobrules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth/api"
)

// nulls lists the elements of a job's lists and maps that are null, by their paths: no rule and no default has a
// meaning for them.
func nulls(j *api.Job) []error {
	var paths []string
	walk(reflect.ValueOf(j).Elem(), "", func(path string) { paths = append(paths, path) }, false)
	slices.Sort(paths)
	out := make([]error, 0, len(paths))
	for _, p := range paths {
		out = append(out, fmt.Errorf("%s is null", p))
	}
	return out
}

// DropNulls takes the elements of a job's lists and maps that are null out of it, once the rules have named them, and
// reports whether there were any: what else there is can be judged without them.
func DropNulls(j *api.Job) bool {
	dropped := false
	walk(reflect.ValueOf(j).Elem(), "", func(string) { dropped = true }, true)
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
