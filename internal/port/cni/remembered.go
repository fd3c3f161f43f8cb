package cni

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/libcni"

	"berth/internal/base/fault"
)

// Remembered is how a container was attached as the library keeps it beside the answers of plugins; nil: it keeps none
// of it. It is there once all plugins have answered, and until they have detached the container.
func Remembered(path []string, cacheBelow, container, namespace string) (*Attachment, error) {
	fail := func(err error) error {
		return fault.Wrap(err, fault.Internal, "read",
			fmt.Sprintf("how container %q was attached below %s", container, cacheBelow))
	}
	all, err := libcni.NewCNIConfigWithCacheDir(path, cacheBelow, newExec()).GetCachedAttachments(container)
	if err != nil || len(all) == 0 {
		return nil, fail(err)
	}
	a := &Attachment{
		Network:    Network{Name: all[0].Network, List: all[0].Config},
		Path:       path,
		Container:  container,
		Namespace:  namespace,
		Interface:  all[0].IfName,
		CacheBelow: cacheBelow,
	}
	for _, pair := range all[0].CniArgs {
		if pair[0] != ignoreUnknown { // each call adds it
			a.Args = append(a.Args, pair)
		}
	}
	ports, err := json.Marshal(all[0].CapabilityArgs["portMappings"])
	if err == nil {
		err = json.Unmarshal(ports, &a.Ports)
	}
	if err != nil {
		return nil, fail(err)
	}
	return a, nil
}
