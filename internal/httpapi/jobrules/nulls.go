package jobrules

import (
	"fmt"
	"reflect"
	"slices"

	"berth/api"
)

// Nulls lists the elements of a job's lists and maps that are null, by their paths: no rule and no default has a
// meaning for them.
func Nulls(j *api.Job) []error {
	var paths []string
	nulls(reflect.ValueOf(j).Elem(), "", func(path string) { paths = append(paths, path) })
	slices.Sort(paths)
	out := make([]error, 0, len(paths))
	for _, p := range paths {
		out = append(out, fmt.Errorf("%s is null", p))
	}
	return out
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
