package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// requestTimeout is the time for one request to a provider.
	requestTimeout = 5 * time.Second
	// maxReply bounds the reply of a provider, in bytes.
	maxReply = 1 << 20
	// maxMessage bounds what an error contains of a reply, in bytes.
	maxMessage = 300
)

// LocalClient returns a client for an endpoint of the node, such as a metadata server: it uses no proxy.
func LocalClient() *http.Client { return newHTTPClient(nil) }

// InternetClient returns a client for an endpoint that can be behind a proxy.
func InternetClient() *http.Client { return newHTTPClient(http.ProxyFromEnvironment) }

// newHTTPClient returns a client without open connections between the requests, which are minutes apart. It follows no redirection, which could
// send a secret elsewhere.
func newHTTPClient(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{
		Timeout:       requestTimeout,
		Transport:     &http.Transport{Proxy: proxy, DisableKeepAlives: true, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Request sends a request without a body and with headers, and returns the body of the reply. The error of a reply that is not 200 is a
// [*StatusError].
func Request(ctx context.Context, client *http.Client, method, address string, headers map[string]string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return send(client, request)
}

// PostForm sends a form, and returns the body of the reply. The error of a reply that is not 200 is a [*StatusError].
func PostForm(ctx context.Context, client *http.Client, address string, form url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(client, request)
}

func send(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("read the reply of %s: %w", request.URL.Host, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &StatusError{Host: request.URL.Host, Status: response.Status, Body: body}
	}
	return body, nil
}

// StatusError is the error of a reply that is not 200. Its text does not contain the body.
type StatusError struct {
	Host, Status string
	Body         []byte
}

// Error implements error.
func (e *StatusError) Error() string { return e.Host + " replied " + e.Status }

// Explain adds to err what the reply of a provider states, without the secrets, if err is a [*StatusError].
func Explain(err error, message func(body []byte) string, secrets ...string) error {
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return err
	}
	text := strings.Join(strings.Fields(message(status.Body)), " ")
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[removed]")
		}
	}
	if text == "" {
		return err
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + " …"
	}
	return fmt.Errorf("%w: %s", err, text)
}
