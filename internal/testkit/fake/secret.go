package fake

import (
	"fmt"
	"slices"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// authorize refuses a call without its secret and, when told to, is as careless as real plugins are: it repeats secrets
// and mount flags in the message of an error.
func (p *Plugin) authorize(rpc string, req any) error {
	r, ok := req.(interface{ GetSecrets() map[string]string })
	if !ok {
		return nil
	}
	secrets := r.GetSecrets()
	if name := p.cfg.Needs; name != "" && secrets[name] == "" {
		return status.Errorf(codes.Unauthenticated, "%s needs the secret %q", rpc, name)
	}
	if !slices.Contains(p.cfg.Echo, rpc) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.echoed[rpc] {
		return nil
	}
	p.echoed[rpc] = true
	return status.Error(codes.Unavailable,
		fmt.Sprintf("login with %v and flags %v: the backend is busy", secrets, flagsOf(req)))
}

// flagsOf are the mount flags of a request that asks for one way of using a volume.
func flagsOf(req any) []string {
	switch r := req.(type) {
	case interface{ GetVolumeCapability() *pb.VolumeCapability }:
		return r.GetVolumeCapability().GetMount().GetMountFlags()
	case interface{ GetVolumeCapabilities() []*pb.VolumeCapability }:
		var out []string
		for _, c := range r.GetVolumeCapabilities() {
			out = append(out, c.GetMount().GetMountFlags()...)
		}
		return out
	}
	return nil
}
