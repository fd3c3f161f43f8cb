package compat

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
)

// parts are the client's handles of what jobs and services need, by the name of the method that gives them.
var parts = map[string]reflect.Type{
	"Jobs":        reflect.TypeFor[*api.Jobs](),
	"Deployments": reflect.TypeFor[*api.Deployments](),
	"Evaluations": reflect.TypeFor[*api.Evaluations](),
	"Allocations": reflect.TypeFor[*api.Allocations](),
	"AllocFS":     reflect.TypeFor[*api.AllocFS](),
	"Services":    reflect.TypeFor[*api.Services](),
	"Variables":   reflect.TypeFor[*api.Variables](),
	"Locks":       reflect.TypeFor[*api.Locks](),
	"EventStream": reflect.TypeFor[*api.EventStream](),
	"Scaling":     reflect.TypeFor[*api.Scaling](),
	"Search":      reflect.TypeFor[*api.Search](),
	"System":      reflect.TypeFor[*api.System](),
}

// held are the variables in which the stories keep a handle.
var held = strings.NewReplacer("vars.", "Variables().", "mine.", "Locks().", "others.", "Locks().")

// Given the client's handles of what jobs and services need, then the stories here call every method of each: what the
// client can do that no story does is not known to work.
func TestTheStoriesCallEveryMethodOfTheParts(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(\w+)\(\)\.(\w+)\(`)
	called := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(held.Replace(string(text)), -1) {
			called[m[1]+"."+m[2]] = true
		}
	}
	embedded := reflect.TypeFor[*api.WriteOptions]() // in Locks
	all := 0
	for name, handle := range parts {
		for i := range handle.NumMethod() {
			method := handle.Method(i).Name
			if _, of := embedded.MethodByName(method); of {
				continue
			}
			if all++; !called[name+"."+method] {
				t.Errorf("no story calls %s.%s", name, method)
			}
		}
	}
	t.Logf("%d methods", all)
}
