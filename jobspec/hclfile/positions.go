package hclfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Positions remember where the members of decoded structs were written. The key is the struct's address; the member
// "" is the block itself. Members of structs that are held by value in a list are kept with the list's owner.
type Positions map[any]map[string]hcl.Range

// Put notes where a member was written; the first place stays.
func (p Positions) Put(owner reflect.Value, member string, rng hcl.Range) {
	key := owner.Addr().Interface()
	if p[key] == nil {
		p[key] = map[string]hcl.Range{}
	}
	if _, there := p[key][member]; !there {
		p[key][member] = rng
	}
}

// move gives the members of one struct to another under a prefix.
func (p Positions) move(from any, to reflect.Value, prefix string) {
	for member, rng := range p[from] {
		p.Put(to, strings.TrimSuffix(prefix+"."+member, "."), rng)
	}
	delete(p, from)
}

// Rename changes the prefix of some members of a struct.
func (p Positions) Rename(owner any, from, to string) {
	members := p[owner]
	if from == to {
		return
	}
	for member, rng := range members {
		if rest, ok := strings.CutPrefix(member, from); ok && (rest == "" || rest[0] == '.') {
			delete(members, member)
			members[to+rest] = rng
		}
	}
}

// Paths gives every position its path from root, as api.Unsupported writes paths.
func (p Positions) Paths(root any) map[string]hcl.Range {
	out := map[string]hcl.Range{}
	p.walk(reflect.ValueOf(root), "", out)
	return out
}

func (p Positions) walk(v reflect.Value, path string, out map[string]hcl.Range) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return
		}
		for member, rng := range p[v.Interface()] {
			out[strings.Trim(path+"."+member, ".")] = rng
		}
		p.walk(v.Elem(), path, out)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				p.walk(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), out)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Pointer {
			return
		}
		for i := range v.Len() {
			p.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), out)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Pointer {
			return
		}
		for _, k := range v.MapKeys() {
			p.walk(v.MapIndex(k), fmt.Sprintf("%s[%q]", path, k.String()), out)
		}
	}
}

// Nearest finds the position of a path, or of what holds it.
func Nearest(at map[string]hcl.Range, path string) (hcl.Range, bool) {
	for path != "" {
		if rng, ok := at[path]; ok {
			return rng, true
		}
		cut := slices.Max([]int{strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['), 0})
		path = path[:cut]
	}
	rng, ok := at[""]
	return rng, ok
}
