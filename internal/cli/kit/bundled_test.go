package kit

import (
	"strings"
	"testing"

	"berth/api"
)

func TestWhyTheBundledPluginDoesNotRun(t *testing.T) {
	off := &api.DriverInfo{HealthDescription: "off"}
	wanted := map[string]string{api.NodeAttributeLocalCSI: "true"}
	for what, c := range map[string]struct {
		attributes map[string]string
		driver     *api.DriverInfo
		says       string
	}{
		"it is not to run":         {},
		"its driver is there":      {attributes: wanted, driver: &api.DriverInfo{Detected: true, Healthy: true}},
		"there is no such driver":  {attributes: wanted, says: "no driver raw_exec"},
		"its driver is disabled":   {attributes: wanted, driver: off, says: "off"},
		"its driver has a problem": {attributes: wanted, driver: &api.DriverInfo{Detected: true}, says: "not ready"},
	} {
		drivers := map[string]*api.DriverInfo{"raw_exec": c.driver}
		got := BundledBlocked(c.attributes, drivers)
		if !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s: it says %q", what, got)
		}
	}
}
