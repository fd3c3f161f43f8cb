// Package jobdiff owns the comparison of two versions of a job for people. Only httpapi imports it.
package jobdiff

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"berth/api"
	"berth/internal/model/job"
	"berth/internal/wire"
)

// Planned compares a job with what it is to become, for people: what is added, deleted and edited, down to single
// values, beside those that stay in what is edited; what each group's update does to its allocs, and what forces it.
// old nil is a new job.
func Planned(old, now *job.Job, changes map[string]wire.GroupChanges) *api.JobDiff {
	d := differ{planned: true}
	out := d.jobs(old, now)
	for _, g := range out.TaskGroups {
		if c, ok := changes[g.Name]; ok {
			g.Updates = updates(c)
		}
		d.annotate(g)
	}
	return out
}

// Of compares two versions of a job for people: what is added, deleted and edited, down to single values.
func Of(old, now *job.Job) *api.JobDiff { return differ{}.jobs(old, now) }

// differ compares parts of jobs.
type differ struct {
	planned bool // values that stay are shown in what is edited
}

// annotate says what the differences of a group force.
func (d differ) annotate(g *api.TaskGroupDiff) {
	for _, f := range g.Fields {
		if f.Name != "Count" {
			continue
		}
		old, _ := strconv.Atoi(f.Old) // there is none: 0
		now, _ := strconv.Atoi(f.New)
		switch {
		case now > old:
			f.Annotations = []string{"forces create"}
		case now < old:
			f.Annotations = []string{"forces destroy"}
		}
	}
	for _, t := range g.Tasks {
		switch t.Type {
		case api.DiffTypeAdded:
			t.Annotations = []string{"forces create"}
		case api.DiffTypeDeleted:
			t.Annotations = []string{"forces destroy"}
		case api.DiffTypeEdited:
			t.Annotations = []string{"forces create/destroy update"}
		}
	}
}

func (d differ) jobs(old, now *job.Job) *api.JobDiff {
	out := &api.JobDiff{Type: api.DiffTypeNone, ID: string(now.ID)}
	if old == nil {
		old = &job.Job{}
		out.Type = api.DiffTypeAdded
	}
	skip := []string{"ID", "Namespace", "Stable", "Version", "SubmitTime", "CreateIndex", "ModifyIndex",
		"JobModifyIndex", "TaskGroups", "VersionTag"}
	out.Fields, out.Objects = d.members(reflect.ValueOf(*old), reflect.ValueOf(*now), skip)
	for _, name := range union(groupNames(old), groupNames(now)) {
		out.TaskGroups = append(out.TaskGroups, d.group(old.Group(name), now.Group(name)))
	}
	if out.Type == api.DiffTypeNone &&
		(len(out.Fields)+len(out.Objects) > 0 || slices.ContainsFunc(out.TaskGroups, func(g *api.TaskGroupDiff) bool {
			return g.Type != api.DiffTypeNone
		})) {
		out.Type = api.DiffTypeEdited
	}
	return out
}

func updates(c wire.GroupChanges) map[string]uint64 {
	out := map[string]uint64{}
	for name, n := range map[string]uint64{"ignore": c.Ignore, "create": c.Place, "migrate": c.Migrate,
		"destroy":         c.Stop,
		"in-place update": c.InPlaceUpdate, "create/destroy update": c.DestructiveUpdate, "canary": c.Canary} {
		if n > 0 {
			out[name] = n
		}
	}
	return out
}

func groupNames(j *job.Job) []string {
	var out []string
	for _, g := range j.TaskGroups {
		out = append(out, g.Name)
	}
	return out
}

func taskNames(g *job.TaskGroup) []string {
	if g == nil {
		return nil
	}
	var out []string
	for _, t := range g.Tasks {
		out = append(out, t.Name)
	}
	return out
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

func kind(hasOld, hasNew bool) string {
	switch {
	case !hasOld:
		return api.DiffTypeAdded
	case !hasNew:
		return api.DiffTypeDeleted
	}
	return api.DiffTypeNone
}

func (d differ) group(old, now *job.TaskGroup) *api.TaskGroupDiff {
	out := &api.TaskGroupDiff{
		Type: kind(old != nil, now != nil),
		Name: nameOf(old, now, func(g *job.TaskGroup) string { return g.Name }),
	}
	o, n := orZero(old), orZero(now)
	out.Fields, out.Objects = d.members(reflect.ValueOf(o), reflect.ValueOf(n), []string{"Name", "Tasks"})
	for _, name := range union(taskNames(old), taskNames(now)) {
		out.Tasks = append(out.Tasks, d.task(o.Task(name), n.Task(name)))
	}
	if out.Type == api.DiffTypeNone &&
		(len(out.Fields)+len(out.Objects) > 0 || slices.ContainsFunc(out.Tasks, func(t *api.TaskDiff) bool {
			return t.Type != api.DiffTypeNone
		})) {
		out.Type = api.DiffTypeEdited
	}
	return out
}

func (d differ) task(old, now *job.Task) *api.TaskDiff {
	out := &api.TaskDiff{
		Type: kind(old != nil, now != nil),
		Name: nameOf(old, now, func(t *job.Task) string { return t.Name }),
	}
	out.Fields, out.Objects = d.members(reflect.ValueOf(orZero(old)), reflect.ValueOf(orZero(now)), []string{"Name"})
	if out.Type == api.DiffTypeNone && len(out.Fields)+len(out.Objects) > 0 {
		out.Type = api.DiffTypeEdited
	}
	return out
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func nameOf[T any](old, now *T, name func(*T) string) string {
	if now != nil {
		return name(now)
	}
	return name(old)
}

// members compares two structs of one type, member by member.
func (d differ) members(old, now reflect.Value, skip []string) (fields []*api.FieldDiff, objects []*api.ObjectDiff) {
	fields, objects = []*api.FieldDiff{}, []*api.ObjectDiff{}
	whole := old.IsZero() || now.IsZero() // added or deleted as a whole: there is no other value to show
	for i := range old.NumField() {
		f := old.Type().Field(i)
		if slices.Contains(skip, f.Name) || reflect.DeepEqual(old.Field(i).Interface(), now.Field(i).Interface()) {
			continue
		}
		fs, os := d.difference(f.Name, old.Field(i), now.Field(i))
		if whole {
			oneSided(fs, old.IsZero())
		}
		fields, objects = append(fields, fs...), append(objects, os...)
	}
	return fields, objects
}

// oneSided shows the values of something that is there on one side only: not the zero of the other.
func oneSided(fields []*api.FieldDiff, added bool) {
	for _, f := range fields {
		if added {
			f.Type, f.Old = api.DiffTypeAdded, ""
		} else {
			f.Type, f.New = api.DiffTypeDeleted, ""
		}
	}
}

// difference compares two values that are not equal.
func (d differ) difference(name string, old, now reflect.Value) ([]*api.FieldDiff, []*api.ObjectDiff) {
	switch old.Kind() {
	case reflect.Pointer, reflect.Struct:
		if old.Kind() == reflect.Pointer && old.Type().Elem().Kind() != reflect.Struct {
			return []*api.FieldDiff{field(name, plain(old), plain(now))}, nil
		}
		return nil, []*api.ObjectDiff{d.object(name, old, now)}
	case reflect.Slice:
		if e := old.Type().Elem(); e.Kind() == reflect.Pointer || e.Kind() == reflect.Struct {
			return nil, d.elements(name, old, now)
		}
		if o, n, differ := textsOf(old, now); differ && name == "Datacenters" { // as observed, of this list alone
			return nil, []*api.ObjectDiff{{
				Type:   edited(len(o), len(n)),
				Name:   name,
				Fields: d.texts(name, o, n),
			}}
		}
	case reflect.Map:
		if e := old.Type().Elem(); e.Kind() == reflect.Pointer {
			return nil, d.entries(name, old, now)
		}
	default:
		return []*api.FieldDiff{field(name, plain(old), plain(now))}, nil
	}
	flatOld, flatNew := map[string]string{}, map[string]string{}
	flatten("", old.Interface(), flatOld)
	flatten("", now.Interface(), flatNew)
	var fields []*api.FieldDiff
	for _, k := range union(keys(flatOld), keys(flatNew)) {
		if o, n := flatOld[k], flatNew[k]; o != n || d.planned {
			fields = append(fields, field(k, o, n))
		}
	}
	if old.Kind() == reflect.Slice {
		return prefixed(name, fields), nil
	}
	return nil, []*api.ObjectDiff{{Type: edited(old.Len(), now.Len()), Name: name, Fields: fields}}
}

// textsOf are the values of two lists of texts that differ by more than their order.
func textsOf(old, now reflect.Value) (o, n []string, differ bool) {
	if old.Type().Elem().Kind() != reflect.String {
		return nil, nil, false
	}
	all := func(v reflect.Value) (out []string) {
		for i := range v.Len() {
			out = append(out, v.Index(i).String())
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	o, n = all(old), all(now)
	return o, n, !slices.Equal(o, n)
}

// texts are the values that came and went; each has the list's name.
func (d differ) texts(name string, old, now []string) (out []*api.FieldDiff) {
	for _, v := range union(old, now) {
		switch had, has := slices.Contains(old, v), slices.Contains(now, v); {
		case !has:
			out = append(out, &api.FieldDiff{Type: api.DiffTypeDeleted, Name: name, Old: v})
		case !had:
			out = append(out, &api.FieldDiff{Type: api.DiffTypeAdded, Name: name, New: v})
		case d.planned:
			out = append(out, &api.FieldDiff{
				Type: api.DiffTypeNone,
				Name: name,
				Old:  v,
				New:  v,
			})
		}
	}
	return out
}

func prefixed(name string, fields []*api.FieldDiff) []*api.FieldDiff {
	for _, f := range fields {
		f.Name = name + f.Name
	}
	return fields
}

func edited(old, now int) string {
	switch {
	case old == 0:
		return api.DiffTypeAdded
	case now == 0:
		return api.DiffTypeDeleted
	}
	return api.DiffTypeEdited
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

func (d differ) object(name string, old, now reflect.Value) *api.ObjectDiff {
	out := &api.ObjectDiff{Name: name, Type: api.DiffTypeEdited}
	o, n := old, now
	if old.Kind() == reflect.Pointer {
		out.Type = kind(!old.IsNil(), !now.IsNil())
		if out.Type == api.DiffTypeNone {
			out.Type = api.DiffTypeEdited
		}
		o, n = deref(old), deref(now)
	}
	out.Fields, out.Objects = d.members(o, n, nil)
	if d.planned && out.Type == api.DiffTypeEdited {
		out.Fields = append(out.Fields, staying(o, n)...)
		byName(out.Fields)
	}
	return out
}

func deref(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return reflect.Zero(v.Type().Elem())
	}
	return v.Elem()
}

// elements compares lists of objects by place: order is meaning in a job.
func (d differ) elements(name string, old, now reflect.Value) []*api.ObjectDiff {
	singular := strings.TrimSuffix(name, "s")
	var out []*api.ObjectDiff
	for i := range max(old.Len(), now.Len()) {
		o, n := at(old, i), at(now, i)
		if reflect.DeepEqual(o.Interface(), n.Interface()) {
			continue
		}
		diff := d.object(singular, o, n)
		if o.Kind() == reflect.Struct {
			diff.Type = edited(min(old.Len(), i+1)-i, min(now.Len(), i+1)-i)
		}
		out = append(out, diff)
	}
	return out
}

func at(list reflect.Value, i int) reflect.Value {
	if i < list.Len() {
		return list.Index(i)
	}
	return reflect.Zero(list.Type().Elem())
}

// entries compares maps of objects by key.
func (d differ) entries(name string, old, now reflect.Value) []*api.ObjectDiff {
	var names []string
	for _, m := range []reflect.Value{old, now} {
		for _, k := range m.MapKeys() {
			names = append(names, k.String())
		}
	}
	var out []*api.ObjectDiff
	for _, k := range union(names, nil) {
		o, n := entry(old, k), entry(now, k)
		if !reflect.DeepEqual(o.Interface(), n.Interface()) {
			out = append(out, d.object(strings.TrimSuffix(name, "s")+" "+strconv.Quote(k), o, n))
		}
	}
	return out
}

func entry(m reflect.Value, key string) reflect.Value {
	if v := m.MapIndex(reflect.ValueOf(key)); v.IsValid() {
		return v
	}
	return reflect.Zero(m.Type().Elem())
}

// staying shows the values of a struct that are the same on both sides, and are there.
func staying(old, now reflect.Value) []*api.FieldDiff {
	var out []*api.FieldDiff
	for i := range old.NumField() {
		o, n := old.Field(i), now.Field(i)
		switch o.Kind() {
		case reflect.Struct, reflect.Slice, reflect.Map:
			continue
		case reflect.Pointer:
			if o.Type().Elem().Kind() == reflect.Struct {
				continue
			}
		}
		if v := plain(o); v != "" && v == plain(n) {
			out = append(out, field(old.Type().Field(i).Name, v, v))
		}
	}
	return out
}

func byName(fields []*api.FieldDiff) {
	slices.SortStableFunc(fields, func(a, b *api.FieldDiff) int { return strings.Compare(a.Name, b.Name) })
}

func field(name, old, now string) *api.FieldDiff {
	out := &api.FieldDiff{Type: api.DiffTypeEdited, Name: name, Old: old, New: now}
	switch {
	case old == now:
		out.Type = api.DiffTypeNone
	case old == "":
		out.Type = api.DiffTypeAdded
	case now == "":
		out.Type = api.DiffTypeDeleted
	}
	return out
}

// plain writes a single value; durations as their number of nanoseconds, like the API.
func plain(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	return fmt.Sprint(v.Interface())
}

// flatten writes a free-form value as paths: args[1], mount.source.
func flatten(path string, v any, into map[string]string) {
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Map:
		for it := rv.MapRange(); it.Next(); {
			sub := it.Key().String()
			if path != "" {
				sub = path + "." + sub
			}
			flatten(sub, it.Value().Interface(), into)
		}
	case reflect.Slice:
		for i := range rv.Len() {
			flatten(path+"["+strconv.Itoa(i)+"]", rv.Index(i).Interface(), into)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}
