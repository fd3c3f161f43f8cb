// Package diff owns the question what a job needs: how two versions of it differ for the allocs that run, and which
// allocs are to be placed, stopped, replaced or left alone. It is pure: jobs, allocs and the time in, decisions out.
// Only the scheduler imports it.
package diff

import (
	"reflect"
	"slices"

	"berth/internal/model/job"
)

// Change says what another version of a job means to an alloc.
type Change uint8

// Changes.
const (
	Same        Change = iota // nothing that an alloc could notice
	InPlace                   // the alloc goes on under the new version
	Destructive               // the alloc is replaced
)

func (c Change) String() string { return [...]string{"same", "in-place", "destructive"}[c] }

// bookkeeping fields say nothing about the work; inPlace fields are read by the servers, services also by the node
// beside its tasks, so that a running alloc keeps its processes. Every other field, those added later included, is part
// of what runs: its change is destructive. Metadata is among them, since tasks see it in their environment.
var (
	bookkeeping = fieldSet(map[reflect.Type][]string{
		reflect.TypeFor[job.Job](): {"Version", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "Stable",
			"Stop", "TaskGroups"},
	})
	inPlace = fieldSet(map[reflect.Type][]string{
		reflect.TypeFor[job.Job](): {"Priority", "AllAtOnce", "Datacenters", "NodePool", "Constraints", "Affinities",
			"Spreads"},
		reflect.TypeFor[job.TaskGroup](): {"Count", "Constraints", "Affinities", "Spreads", "RestartPolicy",
			"ReschedulePolicy", "Update", "ShutdownDelay", "MaxRunDuration", "Services", "Disconnect"},
		reflect.TypeFor[job.Task]():          {"Constraints", "Affinities", "RestartPolicy", "Services"},
		reflect.TypeFor[job.VolumeRequest](): {"Create"},
	})
)

type field struct {
	of   reflect.Type
	name string
}

func fieldSet(m map[reflect.Type][]string) map[field]bool {
	out := map[field]bool{}
	for t, names := range m {
		for _, n := range names {
			out[field{t, n}] = true
		}
	}
	return out
}

// Compare tells what the new version means to the allocs of a group of the old one. A group that the new version does
// not have is Destructive.
func Compare(old, now *job.Job, group string) Change {
	a, b := old.Group(group), now.Group(group)
	if a == nil || b == nil {
		return Destructive
	}
	c := max(compare(reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem()),
		compare(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()))
	return c
}

// SharedUseChanged reports whether the new version uses a CSI volume that its allocs share in another way. The volume's
// mode is one for all its users, so all of them have to go before the first can come back.
func SharedUseChanged(old, now *job.Job, group string) bool {
	a, b := old.Group(group), now.Group(group)
	if a == nil || b == nil {
		return false
	}
	for _, v := range a.CSIVolumes() {
		for _, w := range b.CSIVolumes() {
			if v.Source != w.Source || v.PerAlloc || w.PerAlloc {
				continue
			}
			if v.AccessMode != w.AccessMode || v.AttachmentMode != w.AttachmentMode ||
				!equal(reflect.ValueOf(v.MountOptions), reflect.ValueOf(w.MountOptions)) {
				return true
			}
		}
	}
	return false
}

// compare walks two structs of the same type.
func compare(a, b reflect.Value) Change {
	out := Same
	t := a.Type()
	for i := range t.NumField() {
		f := field{t, t.Field(i).Name}
		if bookkeeping[f] || out == Destructive {
			continue
		}
		va, vb := a.Field(i), b.Field(i)
		switch {
		case t == reflect.TypeFor[job.TaskGroup]() && f.name == "Tasks":
			out = max(out, compareTasks(va.Interface().([]*job.Task), vb.Interface().([]*job.Task)))
		case t == reflect.TypeFor[job.TaskGroup]() && f.name == "Volumes":
			out = max(out, compareVolumes(va.Interface().(volumes), vb.Interface().(volumes)))
		case equal(va, vb):
		case inPlace[f]:
			out = max(out, InPlace)
		default:
			out = Destructive
		}
	}
	return out
}

type volumes = map[string]*job.VolumeRequest

func compareVolumes(a, b volumes) Change {
	if len(a) != len(b) {
		return Destructive
	}
	out := Same
	for alias, r := range a { // the worst of all is kept: the order does not show
		o := b[alias]
		if o == nil {
			return Destructive
		}
		out = max(out, compare(reflect.ValueOf(r).Elem(), reflect.ValueOf(o).Elem()))
	}
	return out
}

func compareTasks(a, b []*job.Task) Change {
	if len(a) != len(b) {
		return Destructive
	}
	out := Same
	for _, t := range a {
		i := slices.IndexFunc(b, func(o *job.Task) bool { return o.Name == t.Name })
		if i < 0 {
			return Destructive
		}
		out = max(out, compare(reflect.ValueOf(t).Elem(), reflect.ValueOf(b[i]).Elem()))
	}
	return out
}

// equal compares deeply. Nil and empty are one, and numbers in free-form configuration are equal when their values are,
// whatever type a codec gave them.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return equal(a.Elem(), b.Elem())
	case reflect.Interface:
		return equalAny(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return equalMaps(a, b)
	}
	return a.Equal(b)
}

func equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, k := range a.MapKeys() {
		v := b.MapIndex(k)
		if !v.IsValid() || !equal(a.MapIndex(k), v) {
			return false
		}
	}
	return true
}

func equalAny(a, b reflect.Value) bool {
	if a.IsNil() || b.IsNil() {
		return a.IsNil() == b.IsNil()
	}
	a, b = a.Elem(), b.Elem()
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	if a.Kind() != b.Kind() || a.Kind() != reflect.Slice && a.Kind() != reflect.Map && a.Type() != b.Type() {
		return false
	}
	return equal(a, b)
}

func number(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}
