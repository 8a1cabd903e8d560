package aws_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-dev/weir/limiter/redisclient/identity"
	"github.com/weir-dev/weir/limiter/redisclient/identity/aws"
)

const (
	accessKey = "AKIAIOSFODNN7EXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	session   = "IQoJb3JpZ2luX2VjEXAMPLE//token+=="
	jwt       = "eyJhbGciOiJSUzI1NiJ9.the-service-account.signature"
)

var at = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func keys(token string) func(string) string {
	return environment(map[string]string{"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": token})
}

func fetch(t *testing.T, o aws.Options) (identity.Credentials, error) {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return at }
	}
	if o.Cache == "" {
		o.Cache, o.User, o.Region = "cache-1", "weir", "eu-west-1"
	}
	provider, err := aws.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return provider.Fetch(t.Context())
}

// TestFetch_SignsAsBotocore has tokens of generate_presigned_url of botocore 1.44.8, for the URL https://<cache>/?Action=connect&User=<user>.
func TestFetch_SignsAsBotocore(t *testing.T) {
	tests := map[string]struct {
		options aws.Options
		want    string
	}{
		"ElastiCache": {
			aws.Options{Cache: "Cache-1", User: "weir", Region: "eu-west-1", Getenv: keys("")},
			"cache-1/?Action=connect&User=weir&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261127%2Feu-west-1%2Felasticache%2Faws4_request&X-Amz-Date=20261127T120000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=079f223d39104fa19e698f93a8eea0cfaaed6be2399cf76c1cb783da31c8fc65",
		},
		"ElastiCache Serverless": {
			aws.Options{Serverless: true, Cache: "serverless-1", User: "weir-limiter", Region: "us-east-1", Getenv: keys(session)},
			"serverless-1/?Action=connect&User=weir-limiter&ResourceType=ServerlessCache&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261127%2Fus-east-1%2Felasticache%2Faws4_request&X-Amz-Date=20261127T120000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Security-Token=IQoJb3JpZ2luX2VjEXAMPLE%2F%2Ftoken%2B%3D%3D&X-Amz-Signature=b1e46d7be0228d0a47b3ee692f7d159b72c2ffbe3d5e915eab7d696152e29a85",
		},
		"MemoryDB": {
			aws.Options{MemoryDB: true, Cache: "cluster-1", User: "weir_user", Region: "ap-southeast-2", Getenv: keys(session)},
			"cluster-1/?Action=connect&User=weir_user&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261127%2Fap-southeast-2%2Fmemorydb%2Faws4_request&X-Amz-Date=20261127T120000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Security-Token=IQoJb3JpZ2luX2VjEXAMPLE%2F%2Ftoken%2B%3D%3D&X-Amz-Signature=76591c225f2c8020e503876756af05527083d256bcec047d59691744d3ebb5ec",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if got.Username != test.options.User || !got.Expires.Equal(at.Add(15*time.Minute)) || got.Problem != nil {
				t.Errorf("user %q, expires %v, problem %v", got.Username, got.Expires, got.Problem)
			}
			gotHost, gotQuery := split(t, got.Password)
			wantHost, wantQuery := split(t, test.want)
			if gotHost != wantHost || gotQuery.Encode() != wantQuery.Encode() {
				t.Errorf("token %s\n want %s", got.Password, test.want)
			}
		})
	}
}

// split returns the host and the parameters of a token, whose order has no meaning.
func split(t *testing.T, token string) (string, url.Values) {
	t.Helper()
	host, text, ok := strings.Cut(token, "/?")
	query, err := url.ParseQuery(text)
	if !ok || err != nil {
		t.Fatalf("token %q: %v", token, err)
	}
	return host, query
}

// provider is a stand-in for AWS: STS, the agent of EKS Pod Identity, and the metadata service of an instance.
type provider struct {
	*httptest.Server

	expires time.Time
	fail    func(http.ResponseWriter) // writes an error
}

func start(t *testing.T) *provider {
	t.Helper()
	p := &provider{expires: at.Add(time.Hour)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sts", func(w http.ResponseWriter, r *http.Request) {
		want := url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {"arn:aws:iam::1:role/weir"},
			"RoleSessionName": {"weir"}, "WebIdentityToken": {jwt},
		}
		if r.ParseForm() != nil || r.PostForm.Encode() != want.Encode() {
			t.Errorf("STS got %v", r.PostForm)
		}
		fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:weir-system:weir-limiter-default</SubjectFromWebIdentityToken>
    <Credentials><SessionToken>%s</SessionToken><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration><AccessKeyId>%s</AccessKeyId></Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`, session, secretKey, p.expires.Format(time.RFC3339), accessKey)
	})
	document := func() string {
		return fmt.Sprintf(`{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"Expiration":%q}`,
			accessKey, secretKey, session, p.expires.Format(time.RFC3339))
	}
	mux.HandleFunc("GET /v1/credentials", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != jwt {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, document())
	})
	mux.HandleFunc("PUT /latest/api/token", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds"))
		fmt.Fprint(w, "imds-token")
	})
	const roles = "/latest/meta-data/iam/security-credentials/"
	mux.HandleFunc("GET "+roles, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds-token": // version 1
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == roles:
			fmt.Fprint(w, "node-role")
		case r.URL.Path == roles+"node-role":
			fmt.Fprint(w, document())
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.fail != nil {
			p.fail(w)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// environments returns the environments in which AWS credentials come from the stand-in.
func (p *provider) environments(t *testing.T) map[string]func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(jwt+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]func(string) string{
		"IRSA": environment(map[string]string{
			"AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_ROLE_ARN": "arn:aws:iam::1:role/weir", "AWS_ENDPOINT_URL_STS": p.URL + "/sts",
		}),
		"EKS Pod Identity": environment(map[string]string{
			"AWS_CONTAINER_CREDENTIALS_FULL_URI": p.URL + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": file,
		}),
		"instance": environment(map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": p.URL}),
	}
}

func TestFetch_UsesTheIdentityOfThePod(t *testing.T) {
	p := start(t)
	for name, getenv := range p.environments(t) {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, aws.Options{Getenv: getenv, Cache: "cache-1", User: "weir", Region: "eu-west-1"})
			if err != nil {
				t.Fatal(err)
			}
			want, err := fetch(t, aws.Options{Getenv: keys(session), Cache: "cache-1", User: "weir", Region: "eu-west-1"})
			if err != nil || got.Password != want.Password {
				t.Errorf("token %s, want that of the same keys in the environment", got.Password)
			}
		})
	}
}

// A session is renewed at half of its time. While its source is unavailable, tokens are signed with it until it ends, and each of them reports the problem.
func TestFetch_SignsWithTheSessionWhileItsSourceIsUnavailable(t *testing.T) {
	p := start(t)
	for name, getenv := range p.environments(t) {
		t.Run(name, func(t *testing.T) {
			now, begin := at, at
			p.fail, p.expires = nil, begin.Add(time.Hour)
			provider, err := aws.New(aws.Options{Getenv: getenv, Cache: "c", User: "u", Region: "r", Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			check := func(after time.Duration, wantProblem bool, wantValid time.Duration) {
				t.Helper()
				now = begin.Add(after)
				got, err := provider.Fetch(t.Context())
				if (got.Problem != nil) != wantProblem || (err != nil) != (wantValid == 0) {
					t.Fatalf("after %v: problem %v, error %v", after, got.Problem, err)
				}
				if valid := got.Expires.Sub(now).Round(time.Minute); err == nil && valid != wantValid {
					t.Errorf("after %v: valid for %v, want %v", after, valid, wantValid)
				}
				for _, err := range []error{err, got.Problem} {
					if err != nil && strings.Contains(fmt.Sprint(err), "the-service-account") {
						t.Errorf("a secret in %v", err)
					}
				}
			}
			check(0, false, 15*time.Minute)
			p.fail = func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusInternalServerError)
				if name == "IRSA" {
					fmt.Fprintf(w, `<ErrorResponse><Error><Code>InternalFailure</Code><Message>%s</Message></Error></ErrorResponse>`, jwt)
				} else {
					fmt.Fprintf(w, `{"code":"InternalFailure","message":"%s"}`, jwt)
				}
			}
			check(20*time.Minute, false, 15*time.Minute)
			check(40*time.Minute, true, 15*time.Minute)
			check(50*time.Minute, true, 10*time.Minute)
			check(61*time.Minute, false, 0)
			p.fail, p.expires = nil, begin.Add(2*time.Hour)
			check(62*time.Minute, false, 15*time.Minute)
		})
	}
}

func TestFetch_ExplainsWhatSTSRejects(t *testing.T) {
	p := start(t)
	p.fail = func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code>`+
			`<Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error></ErrorResponse>`)
	}
	_, err := fetch(t, aws.Options{Getenv: p.environments(t)["IRSA"]})
	for _, want := range []string{"STS", "arn:aws:iam::1:role/weir", "403", "AccessDenied Not authorized"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	p.fail = func(w http.ResponseWriter) { fmt.Fprint(w, "<html>", secretKey) }
	if _, err := fetch(t, aws.Options{Getenv: p.environments(t)["IRSA"]}); err == nil || strings.Contains(err.Error(), secretKey) {
		t.Errorf("a reply that is not of STS: %v", err)
	}
}

func TestNew_SendsTheTokenOfThePodOnlyToItsAgent(t *testing.T) {
	for _, endpoint := range []string{"http://example.com/x", "ftp://169.254.170.23/", "http://%zz"} {
		_, err := aws.New(aws.Options{Cache: "c", User: "u", Region: "r", Getenv: environment(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint})})
		if err == nil {
			t.Errorf("no error for %s", endpoint)
		}
	}
	for _, endpoint := range []string{"http://169.254.170.23/v1/credentials", "http://[fd00:ec2::23]/v1/credentials", "https://example.com/"} {
		if _, err := aws.New(aws.Options{
			Cache: "c", User: "u", Region: "r", Getenv: environment(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint}),
		}); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
