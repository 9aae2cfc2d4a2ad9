//! Functions of CUDA 13.0's runtime that are not supported: mipmaps, graphics, interprocess handles,
//! per-thread streams, and others that need driver functions which `warpfold_driver` lacks.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::errors::{NOT_SUPPORTED, noted, say};

macro_rules! absent {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, which says that it is not here, once. It reads no argument.")]
        // SAFETY: the runtime's function of this name also returns a code. The arguments are ignored; in
        // C's calling convention the caller removes them.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            static SAID: AtomicBool = AtomicBool::new(false);
            if !SAID.swap(true, Ordering::Relaxed) {
                say(concat!("libcudart: ", stringify!($name), " is not supported"));
            }
            noted(Err(NOT_SUPPORTED))
        }
    )*};
}

absent! {
    __cudaGetProcAddress __cudaLaunchKernel_ptsz __cudaRegisterHostVar __cudaRegisterManagedVar
    __cudaRegisterUnifiedTable cudaArrayGetMemoryRequirements cudaArrayGetPlane
    cudaArrayGetSparseProperties
    cudaCtxResetPersistingL2Cache cudaDestroyExternalMemory cudaDestroyExternalSemaphore
    cudaDeviceFlushGPUDirectRDMAWrites
    cudaDeviceGetHostAtomicCapabilities cudaDeviceGetNvSciSyncAttributes
    cudaDeviceGetP2PAtomicCapabilities
    cudaDeviceRegisterAsyncNotification
    cudaDeviceUnregisterAsyncNotification cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerConnect
    cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect
    cudaEGLStreamConsumerReleaseFrame cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect
    cudaEGLStreamProducerPresentFrame cudaEGLStreamProducerReturnFrame cudaEventCreateFromEGLSync
    cudaEventRecordWithFlags_ptsz cudaEventRecord_ptsz cudaExternalMemoryGetMappedBuffer
    cudaExternalMemoryGetMappedMipmappedArray cudaFreeAsync_ptsz cudaFreeMipmappedArray
    cudaGLGetDevices cudaGLMapBufferObject cudaGLMapBufferObjectAsync cudaGLRegisterBufferObject
    cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice cudaGLUnmapBufferObject cudaGLUnmapBufferObjectAsync
    cudaGLUnregisterBufferObject cudaGetDriverEntryPointByVersion_ptsz
    cudaGetDriverEntryPoint_ptsz cudaGetExportTable cudaGetMipmappedArrayLevel
    cudaGetSurfaceObjectResourceDesc cudaGetTextureObjectResourceDesc
    cudaGetTextureObjectResourceViewDesc cudaGetTextureObjectTextureDesc cudaGraphAddChildGraphNode
    cudaGraphAddDependencies cudaGraphAddEventRecordNode cudaGraphAddEventWaitNode
    cudaGraphAddExternalSemaphoresSignalNode cudaGraphAddExternalSemaphoresWaitNode
    cudaGraphAddMemcpyNodeFromSymbol
    cudaGraphAddMemcpyNodeToSymbol cudaGraphChildGraphNodeGetGraph
    cudaGraphDebugDotPrint cudaGraphDestroyNode
    cudaGraphEventRecordNodeGetEvent cudaGraphEventRecordNodeSetEvent cudaGraphEventWaitNodeGetEvent
    cudaGraphEventWaitNodeSetEvent cudaGraphExecChildGraphNodeSetParams
    cudaGraphExecEventRecordNodeSetEvent cudaGraphExecEventWaitNodeSetEvent
    cudaGraphExecExternalSemaphoresSignalNodeSetParams cudaGraphExecExternalSemaphoresWaitNodeSetParams
    cudaGraphExecGetFlags
    cudaGraphExecMemcpyNodeSetParamsFromSymbol cudaGraphExecMemcpyNodeSetParamsToSymbol
    cudaGraphExecNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeGetParams cudaGraphExternalSemaphoresSignalNodeSetParams
    cudaGraphExternalSemaphoresWaitNodeGetParams cudaGraphExternalSemaphoresWaitNodeSetParams
    cudaGraphGetEdges cudaGraphGetRootNodes cudaGraphHostNodeGetParams cudaGraphHostNodeSetParams
    cudaGraphInstantiateWithParams_ptsz cudaGraphKernelNodeCopyAttributes
    cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetAttribute
    cudaGraphLaunch_ptsz
    cudaGraphMemcpyNodeGetParams cudaGraphMemcpyNodeSetParams
    cudaGraphMemcpyNodeSetParams1D cudaGraphMemcpyNodeSetParamsFromSymbol
    cudaGraphMemcpyNodeSetParamsToSymbol cudaGraphMemsetNodeGetParams cudaGraphMemsetNodeSetParams
    cudaGraphNodeFindInClone cudaGraphNodeGetDependencies cudaGraphNodeGetDependentNodes
    cudaGraphNodeGetEnabled cudaGraphNodeSetEnabled cudaGraphNodeSetParams cudaGraphReleaseUserObject
    cudaGraphRemoveDependencies cudaGraphRetainUserObject cudaGraphUpload_ptsz
    cudaGraphicsEGLRegisterImage cudaGraphicsGLRegisterBuffer cudaGraphicsGLRegisterImage
    cudaGraphicsMapResources cudaGraphicsResourceGetMappedEglFrame
    cudaGraphicsResourceGetMappedMipmappedArray cudaGraphicsResourceGetMappedPointer
    cudaGraphicsResourceSetMapFlags cudaGraphicsSubResourceGetMappedArray cudaGraphicsUnmapResources
    cudaGraphicsUnregisterResource cudaGraphicsVDPAURegisterOutputSurface
    cudaGraphicsVDPAURegisterVideoSurface cudaImportExternalMemory cudaImportExternalSemaphore
    cudaIpcCloseMemHandle cudaIpcGetEventHandle cudaIpcGetMemHandle cudaIpcOpenEventHandle
    cudaIpcOpenMemHandle cudaKernelSetAttributeForDevice cudaLaunchCooperativeKernel_ptsz
    cudaLaunchHostFunc_ptsz cudaLaunchKernelExC_ptsz cudaLaunchKernel_ptsz cudaLibraryEnumerateKernels
    cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount cudaLibraryGetManaged
    cudaLibraryGetUnifiedFunction cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryUnload
    cudaLogsCurrent cudaLogsDumpToFile cudaLogsDumpToMemory cudaLogsRegisterCallback
    cudaLogsUnregisterCallback cudaMallocAsync_ptsz
    cudaMallocFromPoolAsync_ptsz cudaMallocMipmappedArray cudaMemDiscardAndPrefetchBatchAsync
    cudaMemDiscardAndPrefetchBatchAsync_ptsz cudaMemDiscardBatchAsync cudaMemDiscardBatchAsync_ptsz
    cudaMemGetDefaultMemPool cudaMemGetMemPool cudaMemPoolExportPointer
    cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle cudaMemPoolImportPointer
    cudaMemPrefetchAsync_ptsz cudaMemPrefetchBatchAsync cudaMemPrefetchBatchAsync_ptsz
    cudaMemRangeGetAttribute cudaMemRangeGetAttributes cudaMemSetMemPool
    cudaMemcpy2DArrayToArray_ptds cudaMemcpy2DAsync_ptsz
    cudaMemcpy2DFromArrayAsync_ptsz cudaMemcpy2DFromArray_ptds
    cudaMemcpy2DToArrayAsync_ptsz cudaMemcpy2DToArray_ptds cudaMemcpy2D_ptds
    cudaMemcpy3DAsync_ptsz cudaMemcpy3DBatchAsync cudaMemcpy3DBatchAsync_ptsz cudaMemcpy3DPeer
    cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz cudaMemcpy3DPeer_ptds cudaMemcpy3D_ptds
    cudaMemcpyArrayToArray cudaMemcpyArrayToArray_ptds cudaMemcpyAsync_ptsz cudaMemcpyBatchAsync
    cudaMemcpyBatchAsync_ptsz cudaMemcpyFromArrayAsync_ptsz
    cudaMemcpyFromArray_ptds cudaMemcpyFromSymbolAsync_ptsz cudaMemcpyFromSymbol_ptds
    cudaMemcpyToArrayAsync_ptsz cudaMemcpyToArray_ptds
    cudaMemcpyToSymbolAsync_ptsz cudaMemcpyToSymbol_ptds cudaMemcpy_ptds cudaMemset2DAsync_ptsz
    cudaMemset2D_ptds cudaMemset3DAsync_ptsz cudaMemset3D_ptds cudaMemsetAsync_ptsz cudaMemset_ptds
    cudaMipmappedArrayGetMemoryRequirements cudaMipmappedArrayGetSparseProperties
    cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize cudaSignalExternalSemaphoresAsync
    cudaSignalExternalSemaphoresAsync_ptsz cudaStreamAddCallback_ptsz cudaStreamAttachMemAsync_ptsz
    cudaStreamBeginCaptureToGraph_ptsz cudaStreamBeginCapture_ptsz
    cudaStreamCopyAttributes cudaStreamCopyAttributes_ptsz cudaStreamEndCapture_ptsz
    cudaStreamGetAttribute cudaStreamGetAttribute_ptsz cudaStreamGetCaptureInfo_ptsz cudaStreamGetDevice
    cudaStreamGetDevice_ptsz cudaStreamGetFlags_ptsz cudaStreamGetId_ptsz cudaStreamGetPriority_ptsz
    cudaStreamIsCapturing_ptsz cudaStreamQuery_ptsz cudaStreamSetAttribute cudaStreamSetAttribute_ptsz
    cudaStreamSynchronize_ptsz
    cudaStreamUpdateCaptureDependencies_ptsz cudaStreamWaitEvent_ptsz cudaUserObjectCreate
    cudaUserObjectRelease cudaUserObjectRetain cudaVDPAUGetDevice cudaVDPAUSetVDPAUDevice
    cudaWaitExternalSemaphoresAsync cudaWaitExternalSemaphoresAsync_ptsz
}
