package xds

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-dev/weir/limiter/wait"
)

const (
	// Servers of gRPC close connections whose clients send pings more often than every five minutes.
	keepaliveAfter, keepaliveTimeout = 6 * time.Minute, 20 * time.Second
	// maxMessage is the largest response, in bytes. The default of gRPC is 4 MiB, some thousands of limits.
	maxMessage = 256 << 20
	// maxReason is the longest reason of a rejection, in bytes.
	maxReason = 4 << 10
	// maxRepeatWait is the longest wait before the answer to a configuration that was rejected before.
	maxRepeatWait = 5 * time.Second
	// acceptedFor is how long a connection must last so that the next one is attempted after the shortest wait.
	acceptedFor = 30 * time.Second
)

// Options configure a Client. All fields but Credentials are required.
type Options struct {
	// Server is the address of the xDS server, host:port.
	Server string
	// Credentials returns the TLS configuration of a connection. It is called for each connection, so that renewed certificates need no
	// restart. Nil disables TLS.
	Credentials func() (*tls.Config, error)
	// Node identifies the client. The server selects the configuration by its ID.
	Node *corev3.Node
	// TypeURL is the type of the resources.
	TypeURL string
	// Apply applies all resources of a response. An error rejects the response. Apply can have applied a part of it, as the xDS
	// protocol allows for resources that are valid on their own.
	Apply func(resources []*anypb.Any) error
	// MinWait and MaxWait bound the time between two connections.
	MinWait, MaxWait time.Duration
	Metrics          *Metrics
	Log              *slog.Logger
}

// Client receives the resources of one type. Run starts it.
type Client struct {
	Options

	version   string // accepted last on this stream
	connected bool
	// The version that was rejected last on this stream, if it was the last response, and the next wait before it is rejected again.
	rejected   string
	refusal    error
	repeatWait time.Duration
}

// New returns a Client.
func New(o Options) *Client { return &Client{Options: o} }

// Run receives resources until ctx is done. It connects again whenever the connection ends.
func (c *Client) Run(ctx context.Context) {
	pause := c.MinWait
	for ctx.Err() == nil {
		began := time.Now()
		err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > acceptedFor {
			pause = c.MinWait
		}
		c.disconnected(err, pause)
		wait.Sleep(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, c.MaxWait)
	}
}

// disconnected reports the end of a connection, or a connection that failed.
func (c *Client) disconnected(err error, pause time.Duration) {
	message := "cannot connect to the xDS server; the configuration that was accepted last stays active"
	if c.connected {
		message = "lost the connection to the xDS server; the configuration that was accepted last stays active"
	}
	c.connected = false
	c.Metrics.connected.Set(0)
	c.Log.Warn(message, "server", c.Server, "error", err, "retry within", pause)
}

// session receives resources over one connection, and returns why it ended.
func (c *Client) session(ctx context.Context) error {
	security := insecure.NewCredentials()
	if c.Credentials != nil {
		config, err := c.Credentials()
		if err != nil {
			return err
		}
		security = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(c.Server,
		grpc.WithTransportCredentials(security),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveAfter, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("address of the xDS server: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = c.stream(ctx, conn)
	return errors.Join(err, conn.Close())
}

// stream subscribes, and answers each response.
func (c *Client) stream(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err //nolint:wrapcheck // a status names the call
	}
	// The first request names no version: after a restart, a server can use the same version for another configuration.
	c.version, c.rejected, c.refusal = "", "", nil
	if err := stream.Send(&discoveryv3.DiscoveryRequest{Node: c.Node, TypeUrl: c.TypeURL}); err != nil {
		_, err = stream.Recv() // Send returns only io.EOF
		return err             //nolint:wrapcheck // a status names the call
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err //nolint:wrapcheck // a status names the call
		}
		if !c.connected {
			c.connected = true
			c.Metrics.connected.Set(1)
			c.Log.Info("connected to the xDS server", "server", c.Server, "version", response.GetVersionInfo())
		}
		if err := stream.Send(c.answer(ctx, response)); err != nil {
			_, err = stream.Recv()
			return err //nolint:wrapcheck // a status names the call
		}
	}
}

// answer applies a response, and returns the request that acknowledges or rejects it.
func (c *Client) answer(ctx context.Context, response *discoveryv3.DiscoveryResponse) *discoveryv3.DiscoveryRequest {
	if c.refusal != nil && response.GetVersionInfo() == c.rejected {
		c.waitToRepeat(ctx)
		return c.rejection(response)
	}
	if c.refusal = c.apply(response); c.refusal != nil {
		c.rejected, c.repeatWait = response.GetVersionInfo(), c.MinWait
		c.Metrics.rejected.Inc()
		c.Log.Error("rejected a configuration of the xDS server", "version", c.rejected, "active", cmp.Or(c.version, "none"), "error", c.refusal)
		return c.rejection(response)
	}
	c.Metrics.accepted.Inc()
	c.version = response.GetVersionInfo()
	return c.request(response)
}

// waitToRepeat slows down a server that sends a rejected configuration again immediately, as that of Envoy Gateway does.
func (c *Client) waitToRepeat(ctx context.Context) {
	timer := time.NewTimer(c.repeatWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	c.repeatWait = min(2*c.repeatWait, maxRepeatWait, c.MaxWait)
}

func (c *Client) request(response *discoveryv3.DiscoveryResponse) *discoveryv3.DiscoveryRequest {
	return &discoveryv3.DiscoveryRequest{Node: c.Node, TypeUrl: c.TypeURL, VersionInfo: c.version, ResponseNonce: response.GetNonce()}
}

func (c *Client) rejection(response *discoveryv3.DiscoveryResponse) *discoveryv3.DiscoveryRequest {
	request := c.request(response)
	request.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason(c.refusal)}
	return request
}

func (c *Client) apply(response *discoveryv3.DiscoveryResponse) error {
	if response.GetTypeUrl() != c.TypeURL {
		return fmt.Errorf("resources of type %q, want %q", response.GetTypeUrl(), c.TypeURL)
	}
	return c.Apply(response.GetResources())
}

// reason is an error as valid UTF-8 that a server can log.
func reason(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "?")
}
