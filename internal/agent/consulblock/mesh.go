package consulblock

import (
	"crypto/x509"
	"net"
	"os"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/port/consul"
)

// DefaultGRPC is where an agent of Consul gives sidecars their configuration.
const DefaultGRPC = "127.0.0.1:8502"

// Mesh is where the sidecars of the node get their configuration; nil: the node has no agent of Consul.
func (b *Block) Mesh() (*consul.Mesh, error) {
	if b == nil {
		return nil, nil
	}
	out := &consul.Mesh{Address: DefaultGRPC}
	if b.GRPCAddress != "" {
		out.Address = b.GRPCAddress
	}
	path, unix := strings.CutPrefix(out.Address, "unix://")
	host, port, err := net.SplitHostPort(out.Address)
	if unix && !strings.HasPrefix(path, "/") || !unix && (err != nil || host == "" || port == "") {
		return nil, refuse("grpc_address "+out.Address, "it is neither HOST:PORT nor unix:///PATH",
			`write grpc_address = "`+DefaultGRPC+`"`)
	}
	if b.GRPCCAFile == "" {
		return out, nil
	}
	if out.CA, err = os.ReadFile(b.GRPCCAFile); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "read", "consul grpc_ca_file "+b.GRPCCAFile)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(out.CA) {
		return nil, refuse("grpc_ca_file "+b.GRPCCAFile, "it holds no certificate in PEM",
			"name the file of the authority that signs the certificates of Consul's agents")
	}
	return out, nil
}

func (b *Block) checkMesh() error {
	_, err := b.Mesh()
	return err
}
