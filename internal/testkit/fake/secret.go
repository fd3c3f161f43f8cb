package fake

import (
	"fmt"
	"maps"
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

// DefectSecretID makes ids out of secrets.
const DefectSecretID Defect = "secret-id"

// login is the member of a context that holds secrets.
const login = "fake/login"

// loginOf is what a careless plugin writes into contexts.
func loginOf(req any) string {
	r, ok := req.(interface{ GetSecrets() map[string]string })
	if !ok {
		return ""
	}
	return fmt.Sprintf("${secret:%v} at backend", r.GetSecrets())
}

// tellLogin puts the secrets into the contexts of an answer.
func (p *Plugin) tellLogin(req, resp any) {
	if !p.cfg.EchoContext {
		return
	}
	switch r := resp.(type) {
	case *pb.CreateVolumeResponse:
		r.Volume.VolumeContext = maps.Clone(r.Volume.VolumeContext)
		r.Volume.VolumeContext[login] = loginOf(req)
	case *pb.ControllerPublishVolumeResponse:
		r.PublishContext[login] = loginOf(req)
	}
}

// sameLogin refuses a call that hands a context back otherwise than it was answered.
func (p *Plugin) sameLogin(req any) error {
	if !p.cfg.EchoContext {
		return nil
	}
	var contexts []map[string]string
	if r, ok := req.(interface{ GetVolumeContext() map[string]string }); ok {
		contexts = append(contexts, r.GetVolumeContext())
	}
	if r, ok := req.(interface{ GetPublishContext() map[string]string }); ok {
		contexts = append(contexts, r.GetPublishContext())
	}
	for _, c := range contexts {
		if c[login] != loginOf(req) {
			return status.Errorf(codes.InvalidArgument, "a context came back with the login %q", c[login])
		}
	}
	return nil
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
