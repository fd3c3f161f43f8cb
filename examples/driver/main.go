// Command hello-driver is a small task driver: it runs a program as a child of its own. It shows what a driver has to
// answer, and how little that is. Build it, put it into the agent's plugin_dir, and name it in the agent's
// configuration:
//
//	plugin_dir = "/opt/berth/plugins"
//	plugin "hello-driver" { config { shell = "/bin/sh" } }
package main

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"berth/pluginproto/basepb"
	"berth/pluginproto/driverpb"
)

// handshake is what hosts of these plugins expect.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  2,
	MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
	MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
}

// served is the one connection on which the plugin answers all.
type served struct {
	plugin.NetRPCUnsupportedPlugin
	d *driver
}

func (s *served) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	basepb.RegisterBasePluginServer(g, s.d)
	driverpb.RegisterDriverServer(g, s.d)
	return nil
}

func (s *served) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{"driver": &served{d: newDriver()}},
		GRPCServer:      plugin.DefaultGRPCServer,
	})
}
