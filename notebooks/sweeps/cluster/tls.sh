# Settings with which the parts of a Dask cluster speak TLS to each other and to nobody else: source this file in the
# shell of the scheduler, of each worker and of the sweep. The first time it makes a key and its certificate, for a
# year, in a folder that all must share. Whoever can read the key can run code on the cluster.
tls="$HOME/.config/probebook/tls"
if [ ! -e "$tls/key.pem" ]; then
    mkdir -p "$tls" && chmod 700 "$tls"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=probebook \
        -keyout "$tls/key.pem" -out "$tls/cert.pem"
fi
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE="$tls/cert.pem"
for role in SCHEDULER WORKER CLIENT; do
    export DASK_DISTRIBUTED__COMM__TLS__${role}__CERT="$tls/cert.pem"
    export DASK_DISTRIBUTED__COMM__TLS__${role}__KEY="$tls/key.pem"
done
# no page about the cluster, which would be open to everyone
export DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES='[]' DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'
