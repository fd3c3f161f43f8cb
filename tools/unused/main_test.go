package main

import (
	"strings"
	"testing"
)

// Given dead functions, when some are kept for a feature, then the others are named, and so is what is kept in vain.
func TestWhatNobodyCallsIsNamedUnlessItIsKept(t *testing.T) {
	found := `[
 {"Path":"berth/internal/a","Funcs":[
  {"Name":"Box.Open","Position":{"File":"internal/a/a.go","Line":3}},
  {"Name":"Kept","Position":{"File":"internal/a/a.go","Line":9}},
  {"Name":"Box.String","Position":{"File":"internal/a/a.go","Line":12}}]},
 {"Path":"berth/internal/testkit/x","Funcs":[{"Name":"New","Position":{"File":"x.go","Line":1}}]}]`
	var out strings.Builder
	err := judge(strings.NewReader(found), &out,
		"# none()\ninternal/a.Kept() : leases\ninternal/a.Gone() : leases\ninternal/a.T.Field : leases\n")
	want := "internal/a/a.go:3: no program calls internal/a.Box.Open()\ntools/arch/kept.txt: internal/a.Gone() is " +
		"called, or gone: delete its line\n"
	if err == nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := judge(strings.NewReader(`null`), &out, ""); err != nil || out.Len() > 0 {
		t.Errorf("%v %s", err, out.String())
	}
}
