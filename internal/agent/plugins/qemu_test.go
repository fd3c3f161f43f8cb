package plugins

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/testkit/reference"
	"berth/jobspec/listing"
)

// Given the block of the driver qemu, then its page has each of its settings, and the names that are refused.
func TestThePageOfQemusBlockIsWhole(t *testing.T) {
	p := reference.Open(t, "reference/drivers.md")
	section := p.Section("The block of qemu")
	var there []string
	for _, e := range listing.Of("qemu", reflect.TypeFor[QemuOptions](), nil) {
		there = append(there, e.Name)
	}
	p.Same("a setting of qemu", reference.Column(section.Rows, 0), there)
	for _, list := range section.Lists() {
		p.Same("a setting that is refused", list, slices.Sorted(maps.Keys(qemuRefusals)))
	}
}

// Given places for images that are none, then they are refused by name; and others reach the driver.
func TestQemusBlockIsJudged(t *testing.T) {
	of := func(o QemuOptions) Plugin { return Plugin{Name: "qemu", Qemu: &Qemu{Config: &o}} }
	for _, path := range []string{"images", "/", "/srv/.."} {
		for name, p := range map[string]Plugin{
			"image_paths":          of(QemuOptions{ImagePaths: []string{"/srv", path}}),
			"writable_image_paths": of(QemuOptions{WritableImagePaths: []string{"/srv", path}}),
		} {
			if err := p.Check(""); !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), " "+name) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	p := of(QemuOptions{ImagePaths: []string{"/srv/images", "/srv/one.img"}, WritableImagePaths: []string{"/srv/own"}})
	if c, err := p.Machines(); err != nil || !slices.Equal(c.Images, []string{"/srv/images", "/srv/one.img"}) ||
		!slices.Equal(c.Writable, []string{"/srv/own"}) {
		t.Errorf("they become %+v, %v", c, err)
	}
}
